"""A server's API, from Python and the standard library alone.

client = Client("http://127.0.0.1:8080", token)
(run,) = client.start(project="/home/ann/shop", goal="add a test")
for event in client.events(run["name"]):
    ...
"""

from ags.client.api import Client as Client
from ags.client.errors import Broken as Broken
from ags.client.errors import Refused as Refused
