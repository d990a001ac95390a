//go:build !linux

package main

func kernelSynced() bool { return false }
