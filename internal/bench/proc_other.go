//go:build !linux

package bench

import "time"

// Other systems do not say what processes use without more ado.

// ProcessUse returns nothing.
func ProcessUse(int) (cpu time.Duration, resident int64) { return 0, 0 }

func ownResident() (now, peak int64) { return 0, 0 }
func ownCPU() time.Duration          { return 0 }
func usageOf([]int) (u Usage)        { return u }
func family(pid int) []int           { return []int{pid} }
func descendants() []int             { return nil }
func listener(int) int               { return 0 }
