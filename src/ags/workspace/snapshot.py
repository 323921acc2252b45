"""The files of a workspace exactly as they lie there, as a commit made inside the fence."""

from __future__ import annotations

import os
import re
from typing import BinaryIO

from ags.frozen import frozen
from ags.workspace import apart

# A commit of the files exactly as they lie there, for `inplace`. $1 $2 see `apart.SCRIPT`. At the
# end of a run also: $3 HEAD and $4 the snapshot at its start, $5 $6 $7 the time and length of that
# one's index and the length of the excludes; both come in first, then what stays left out. Out go:
# three numbers for what follows (the length of a listing, the length and the time of the index),
# those two, and a bundle.
SCRIPT = (
    apart.SCRIPT
    + r"""
base=$3 start=$4 list=/tmp/ags-list left=/tmp/ags-left out=/tmp/ags-out named=/tmp/ags-named
export GIT_INDEX_FILE=/tmp/ags-index opened=$start
: > $named
if [ -n "$start" ]; then
    head -c "$6" > $GIT_INDEX_FILE && head -c "$7" > $GIT_DIR/info/exclude && cat > $left || exit
    # By the time of its index git knows which files it cannot tell by theirs.
    touch -d "@$5" $GIT_INDEX_FILE || exit
else
    for file in "$own"/sharedindex.*; do [ ! -f "$file" ] || cp -p "$file" $GIT_DIR/ || exit; done
    [ ! -f "$own/index" ] || cp -p "$own/index" $GIT_INDEX_FILE || exit
    cat "$own/info/global-exclude" "$own/info/exclude" > $GIT_DIR/info/exclude 2> /dev/null
    : > $left
    git ls-files -s -v -z > $list || exit
    grep -az '^. 160000 ' < $list | sed -z 's/^[^\t]*\t//' > $named
    # What git was told not to look at, or is not there in a sparse checkout.
    grep -az '^[a-zS] ' < $list | sed -z 's/^[^\t]*\t//' | cat - $named > $out
    git update-index --force-remove -z --stdin < $out || exit
    case $(git config --file "$own/config" core.autocrlf) in ''|false) ;; *) echo ;; esac > $out
    git ls-files -z -c -o --exclude-standard -- ':(glob)**/.gitattributes' |
        xargs -0 grep -D skip -sE -e 'text|eol|filter|ident|encoding|crlf|attr' -- \
        "$own/info/attributes" "$own/info/global-attributes" >> $out
    if [ -s $out ]; then
        # What the index knows may be another form of the file: every file is read.
        git ls-files -s -z > $list && rm -f $GIT_INDEX_FILE || exit
        git update-index -z --index-info < $list || exit
    fi
fi
enter() {
    # A folder may have become a link: what git knows of behind it is gone.
    xargs -0 -r sh -c 'for path; do
        way=$path behind=
        while [ "${way%/*}" != "$way" ]; do way=${way%/*}; [ ! -L "$way" ] || behind=1; done
        if [ "$behind" ]; then printf "%s\0" "$path" >&5; continue; fi
        # The agent closed it: as it is, the person could neither see nor undo it.
        if [ "$opened" ] && [ ! -L "$path" ] && [ -f "$path" ] && [ ! -r "$path" ]
        then chmod u+rw "$path"; fi
        if [ "${path%/}" = "$path" ] && { [ -L "$path" ] || [ ! -e "$path" ] || [ -d "$path" ] ||
            { [ -f "$path" ] && [ -r "$path" ]; }; }
        then printf "%s\0" "$path" >&3
        else printf "%s\0" "$path" >&4; fi
    done' ags < $list 3> /tmp/ags-in 4> $out 5> /tmp/ags-behind &&
    git update-index --force-remove -z --stdin < /tmp/ags-behind >&2 &&
    git update-index --add --remove --replace -z --stdin < /tmp/ags-in >&2 &&
    git update-index --force-remove -z --stdin < $out >&2 && cat $out >> $named
}
git update-index -q --refresh > /dev/null
# At the end by the rules of the start: an agent's own would hide from the person what it made.
rules=--exclude-standard
[ -z "$start" ] || rules=--exclude-from=$GIT_DIR/info/exclude
git ls-files -z -m > $list && git ls-files -z -o $rules -X $left >> $list || exit
enter || exit
if [ -n "$start" ] && [ -f "$own/index" ]; then
    # Files that the agent has git track although they are ignored.
    GIT_INDEX_FILE="$own/index" git ls-files -z 2> /dev/null | sort -zu > $list
    git ls-files -z | sort -zu | comm -z -13 - $list > $out
    if [ -s $out ]; then
        git ls-files -z -o -X $left | sort -zu | comm -z -12 - $out > $list
        enter || exit
    fi
fi
tree=$(git write-tree --missing-ok) || exit
is() { [ -n "$1" ] && [ "$tree" = "$(git rev-parse "$1^{tree}")" ]; }
if [ "$head" = "$base" ] && is "$start"; then commit=$start
elif is "$head"; then commit=$head
else commit=$(git commit-tree ${head:+-p "$head"} -m 'ags: files as they were' "$tree") || exit
fi
{ printf '%s\0' "$commit" "$head" "$branch"; cat $named; printf '\0'; } > $list
[ -e $GIT_INDEX_FILE ] || : > $GIT_INDEX_FILE
if [ -z "$start" ]; then
    git ls-files -z -o -i --exclude-standard --directory >> $list
    # With its old time put back, a file whose time of change is this second would look the same.
    [ ! -s $GIT_INDEX_FILE ] ||
        git ls-files --debug | awk -v now="$(date +%s)" '/^  ctime:/ { changed = $2 + 0 }
        /^  mtime:/ && changed >= now && $2 + 0 < changed { exit 1 }' || sleep 1
fi
echo "$(wc -c < $list) $(wc -c < $GIT_INDEX_FILE) $(stat -c %Y $GIT_INDEX_FILE)"
cat $list $GIT_INDEX_FILE
known=${start:-$head}
[ "$commit" != "$known" ] || exec echo "same $commit"
git update-ref refs/ags/result "$commit" || exit
exec git bundle create --quiet - refs/ags/result ${known:+"^$known"}
"""
)


@frozen
class Seen:
    """What a snapshot tells beside its bundle. Names are an agent's."""

    commit: str
    head: str | None
    ref: str | None
    left_out: tuple[bytes, ...]
    ignored: tuple[bytes, ...]
    index: bytes
    time: int
    bundle: int
    """Where it begins."""


def parse(file: BinaryIO) -> Seen | None:
    file.seek(0)
    sizes = re.fullmatch(rb"(\d{1,9}) (\d{1,9}) (\d{1,12})\n", file.readline(64))
    if sizes is None:
        return None
    entries, index = file.read(int(sizes[1])).split(b"\0")[:-1], file.read(int(sizes[2]))
    if b"" not in entries[3:]:
        return None
    middle = entries.index(b"", 3)
    commit, head, ref = (os.fsdecode(entry) for entry in entries[:3])
    left, ignored = tuple(entries[3:middle]), tuple(entries[middle + 1 :])
    time = int(sizes[3])
    return Seen(commit, head or None, ref or None, left, ignored, index, time, file.tell())
