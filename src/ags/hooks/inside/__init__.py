"""What lives in a sandbox: it passes a hook's call on to the socket, and the answer back."""
