package pins

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Max bounds what a Memory remembers.
const Max = 100_000

// Memory is hashes in memory. Its zero value is empty.
type Memory struct {
	hashes sync.Map     // string by Key
	n      atomic.Int32 // of them
}

// Get returns the hash of a tool.
func (m *Memory) Get(key Key) (string, bool) {
	hash, ok := m.hashes.Load(key)
	if !ok {
		return "", false
	}
	return hash.(string), true
}

// Set sets the hash of a tool.
func (m *Memory) Set(key Key, hash string) error {
	_, known := m.hashes.Load(key)
	if !known && m.n.Add(1) > Max {
		m.n.Add(-1)
		return fmt.Errorf("mcpclient: more than %d tools to remember", Max)
	}
	if _, loaded := m.hashes.Swap(key, hash); loaded && !known { // another goroutine has pinned it meanwhile
		m.n.Add(-1)
	}
	return nil
}
