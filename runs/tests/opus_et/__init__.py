"""Stand-ins for a lab's cryo-ET pipeline: its folder, its scripts by their own names, and tools that compute little."""
