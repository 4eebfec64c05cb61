package mcpserver

// Sessions counts the sessions of a server that have not ended.
func Sessions(s *Server) int {
	n := 0
	for one := range s.sessions.Range {
		if !one.(*session).stateless {
			n++
		}
	}
	return n
}

// StopShared stops the session of the modern HTTP requests.
func StopShared(s *Server) {
	n, _ := s.shared()
	n.ref.Stop()
}
