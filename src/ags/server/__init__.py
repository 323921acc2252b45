"""The server: the engine behind HTTP. The one package that loads FastAPI and what comes with it."""
