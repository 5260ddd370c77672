"""The parts of the trials. Each is a function that fills in a `Part`, in a folder of its own."""
