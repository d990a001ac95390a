package main

import "syscall"

// yield lets the appliance go first: it sells while the books are made. Where that is refused, nothing is lost.
func yield() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 10) }
