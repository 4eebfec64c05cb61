//go:build !linux

package main

func checkFiles(int) error { return errSystem }
