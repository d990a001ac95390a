//go:build !linux

package health

func kernelSynced() bool { return false }
