"""The files next to a session, and the order of writes that keeps them safe."""
