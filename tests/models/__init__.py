"""Model servers that play a script, in each maker's wire format, for real agents to talk to.

They listen on loopback, over plain HTTP or TLS, and keep every request: what a model's maker would
have seen is where it is judged that a key was right, and that nothing else was sent.
"""

from tests.models.script import Call, Fail, Request, Say, Script, Think
from tests.models.server import ModelServer

__all__ = ["Call", "Fail", "ModelServer", "Request", "Say", "Script", "Think"]
