//go:build !linux

package owner

// self has no place: of other systems there is no verdict, and a lease lasts until its end.
func self() process { return process{} }

func lives(process) bool { return true }
