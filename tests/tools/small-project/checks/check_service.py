from __future__ import annotations

import asyncio
import unittest

from sums.service import answer, ask


class Service(unittest.IsolatedAsyncioTestCase):
    async def test_answers_on_the_machine_itself(self) -> None:
        server = await asyncio.start_server(answer, "localhost", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            self.assertEqual(await ask(port, "1+1", "2*(3+4)"), ["2", "14"])
            self.assertIn("error", (await ask(port, "1+"))[0])
