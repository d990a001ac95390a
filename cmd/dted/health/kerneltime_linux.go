package health

import "syscall"

// kernelSynced tells that the kernel's clock follows a time server (adjtimex(2)). Setting the clock by hand ends that.
func kernelSynced() bool {
	const timeError, statusUnsynced = 5, 0x40 // TIME_ERROR, STA_UNSYNC
	var t syscall.Timex
	state, err := syscall.Adjtimex(&t)
	return err == nil && state != timeError && t.Status&statusUnsynced == 0
}
