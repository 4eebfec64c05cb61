package bench

import "runtime"

// Memory is what a process uses, in bytes.
type Memory struct {
	Resident   int64 `json:"resident"` // 0 where the system does not say
	Peak       int64 `json:"peak"`     // the most that was ever resident; 0 likewise
	Heap       int64 `json:"heap"`     // objects, dead ones that were not yet collected among them
	Stacks     int64 `json:"stacks"`
	Goroutines int   `json:"goroutines"`
}

func ownMemory() Memory {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	m := Memory{Heap: int64(s.HeapAlloc), Stacks: int64(s.StackInuse), Goroutines: runtime.NumGoroutine()}
	m.Resident, m.Peak = ownResident()
	return m
}

// atLeast is the greater of each.
func (m Memory) atLeast(o Memory) Memory {
	return Memory{Resident: max(m.Resident, o.Resident), Peak: max(m.Peak, o.Peak), Heap: max(m.Heap, o.Heap),
		Stacks: max(m.Stacks, o.Stacks), Goroutines: max(m.Goroutines, o.Goroutines)}
}
