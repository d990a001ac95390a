package health

import (
	"fmt"
	"syscall"
)

// Seal keeps other processes of dted's account out of its memory, which holds the signing key in clear: nobody but root may
// attach to it or read /proc/PID/mem, and no dump is written (prctl(2), PR_SET_DUMPABLE). dted goes on with a warning where the
// kernel refuses.
func Seal() error {
	const setDumpable = 4 // PR_SET_DUMPABLE
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setDumpable, 0, 0); errno != 0 {
		return fmt.Errorf("keeping other processes out of the memory: %w", errno)
	}
	return nil
}
