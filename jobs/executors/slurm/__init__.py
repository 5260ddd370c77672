"""SLURM, as an adapter without models: what it is asked, what it answers, and what the answers mean.

states   what each of its states means            reasons  why a job waits, in words
errors   what its refusals mean                   parse    its answers as rows, and rows as the status of a job
guard    the text that is submitted               scripts  what runs on the target's side, as lists of arguments
client   all of it over a shell
Written against 22.05 and the manuals of later versions: https://slurm.schedmd.com/squeue.html and its neighbours.
"""
