"""A small electron-tomography pipeline: align, reconstruct, match, average.

Arrays are (z, y, x), images (y, x). The tilt axis of an aligned image is y. A point (x, y, z), measured from the
centre (n - 1) / 2 of the volume, is seen at tilt t at image column x cos t + z sin t and row y.
"""
