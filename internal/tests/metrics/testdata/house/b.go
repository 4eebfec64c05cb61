package house

import "sync"

type room struct {
	mu   sync.RWMutex
	size int
	exit *door
}
