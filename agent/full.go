package agent

import "sync"

// fullServers are the servers of a host of which a further run would not get an instance now.
type fullServers struct {
	mu  sync.Mutex // guards all of it, and is held while f is called: a pool reports under its own lock, in order
	all map[string]bool
	f   func(server string, full bool) // nil for none
}

// noticed returns the function that takes the reports of the host's servers, and passes them on.
func (s *fullServers) noticed(next func(string, bool)) func(string, bool) {
	return func(server string, full bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.all == nil {
			s.all = make(map[string]bool)
		}
		s.all[server] = full
		for _, f := range []func(string, bool){s.f, next} {
			if f != nil {
				f(server, full)
			}
		}
	}
}

func (s *fullServers) has(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[server]
}

func (s *fullServers) observe(f func(string, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f = f; f == nil {
		return
	}
	for server, full := range s.all {
		if full {
			f(server, true)
		}
	}
}
