# For gdb started in this folder (say `add-auto-load-safe-path PATH/.gdbinit` once in ~/.gdbinit).
# SIGUSR and SIGPIPE are the program's own business.
set print pretty on
set print array-indexes on
set pagination off
handle SIGPIPE SIGUSR1 SIGUSR2 nostop noprint pass
source tools/lib/gdb_printers.py
