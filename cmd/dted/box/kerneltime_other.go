//go:build !linux

package box

func kernelSynced() bool { return false }
