"""Clients in several languages. Each is given addresses, and tells of each a status and a line."""

from __future__ import annotations

from dataclasses import dataclass

CURL = """
for url in "$@"; do curl -sS -m 90 -o body -w '%{http_code} ' "$url"; head -n 1 body; done
"""

URLLIB = """
import sys, urllib.error, urllib.request
for url in sys.argv[1:]:
    try:
        answer = urllib.request.urlopen(url, timeout=90)
    except urllib.error.HTTPError as error:
        answer = error
    print(answer.status, answer.read().decode().splitlines()[0])
"""

ASYNCIO = """
import asyncio, ssl, sys
from urllib.parse import urlsplit

async def fetch(url):
    parts = urlsplit(url)
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if tls else 80)
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls)
    lines = (f"GET {parts.path} HTTP/1.1", f"Host: {parts.hostname}", "Connection: close", "", "")
    writer.write("\\r\\n".join(lines).encode())
    told, _, body = (await asyncio.wait_for(reader.read(), 90)).partition(b"\\r\\n\\r\\n")
    return f"{told.split()[1].decode()} {body.decode().splitlines()[0]}"

async def main():
    for answer in await asyncio.gather(*map(fetch, sys.argv[1:])):
        print(answer)

asyncio.run(main())
"""

NODE = """
const main = async () => {
  for (const url of process.argv.slice(2)) {
    const answer = await fetch(url)
    console.log(answer.status, (await answer.text()).split("\\n")[0])
  }
}
main()
"""

JAVA = """
import java.net.URI;
import java.net.http.*;
public class Fetch {
    public static void main(String[] urls) throws Exception {
        var client = HttpClient.newHttpClient();
        for (var url : urls) {
            var request = HttpRequest.newBuilder(URI.create(url)).build();
            var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.statusCode() + " " + answer.body().split("\\n")[0]);
        }
    }
}
"""

GO = """
package main
import ("bufio"; "fmt"; "net/http"; "os")
func main() {
    for _, url := range os.Args[1:] {
        answer, err := http.Get(url)
        if err != nil { fmt.Println(err); os.Exit(1) }
        line, _ := bufio.NewReader(answer.Body).ReadString('\\n')
        fmt.Printf("%d %s", answer.StatusCode, line)
        answer.Body.Close()
    }
}
"""

C = r"""
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int reach(const char *host)
{
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *found;
    int made = -1, error = getaddrinfo(host, "80", &wanted, &found);
    if (error)
        fprintf(stderr, "%s: %s\n", host, gai_strerror(error));
    for (struct addrinfo *each = error ? NULL : found; each && made < 0; each = each->ai_next) {
        made = socket(each->ai_family, each->ai_socktype, 0);
        if (connect(made, each->ai_addr, each->ai_addrlen) < 0) { close(made); made = -1; }
    }
    return made;
}

int main(int count, char **urls)
{
    static char host[256], path[256], answer[1 << 16];
    for (int i = 1; i < count; i++) {
        if (sscanf(urls[i], "http://%255[^/]%255s", host, path) != 2) return 2;
        int made = reach(host);
        if (made < 0) return 1;
        dprintf(made, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host);
        size_t size = 0;
        ssize_t more;
        while ((more = read(made, answer + size, sizeof answer - 1 - size)) > 0) size += more;
        answer[size] = 0;
        char *body = strstr(answer, "\r\n\r\n");
        if (!body) return 3;
        printf("%.3s %.*s\n", answer + 9, (int)strcspn(body + 4, "\n"), body + 4);
        close(made);
    }
}
"""

MUSL = "musl-gcc -Wall -Werror -static -o fetch fetch.c"


@dataclass(frozen=True)
class Client:
    program: str
    """What the machine must have for it."""
    file: str
    text: str
    start: str
    """As bash has it, in front of the addresses."""
    tls: bool = True
    """Whether it speaks TLS at all."""


CLIENTS = {
    "curl": Client("curl", "fetch.sh", CURL, "bash -eu fetch.sh"),
    "urllib": Client("python3", "fetch.py", URLLIB, "/usr/bin/python3 -I fetch.py"),
    "asyncio": Client("python3", "fetch.py", ASYNCIO, "/usr/bin/python3 -I fetch.py"),
    "node": Client("node", "fetch.js", NODE, "/usr/bin/node fetch.js"),
    "java": Client("javac", "Fetch.java", JAVA, "java Fetch.java"),
    "go": Client("go", "fetch.go", GO, "GODEBUG=netdns=go go run fetch.go"),
    "go with the C library": Client(
        "go", "fetch.go", GO, "go build fetch.go && GODEBUG=netdns=cgo ./fetch"
    ),
    "musl": Client("musl-gcc", "fetch.c", C, f"{MUSL} && ./fetch", tls=False),
}
