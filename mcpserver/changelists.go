// changelists.go: many changes of a server's lists as one.

package mcpserver

// ChangeLists runs change, which adds, relays and removes tools, resources, templates,
// prompts or skills of this server, as one change: until change has returned, clients see
// the lists and can use what is in them as before, and then they are told once of each list
// that has changed. What other goroutines add meanwhile waits, too. change must be quick; it
// may call ChangeLists.
func (s *Server) ChangeLists(change func()) {
	lists := []interface {
		hold()
		release()
	}{&s.tools, &s.resources, &s.templates, &s.prompts, &s.skills}
	for _, l := range lists {
		l.hold()
		defer l.release()
	}
	change()
}

// hold keeps the list that clients see as it is.
func (l *shelf[T]) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.load()
	l.held++
}

// release shows clients the list as it is now, if nothing else holds it.
func (l *shelf[T]) release() {
	l.mu.Lock()
	l.held--
	tell := l.held == 0 && l.news
	if tell {
		l.news = false
		l.now.Store(nil)
	}
	l.mu.Unlock()
	l.tell(tell)
}
