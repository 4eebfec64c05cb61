package mcpserver

import "github.com/troupe-dev/troupe/actors"

// Calls is how many calls in several rounds are remembered.
func Calls(s *Server) int { return s.dialogues.Calls.Len() }

// CallActors are those of the handlers that are kept between rounds, or work for a retry.
func CallActors(s *Server) []actors.Ref { return s.dialogues.Calls.Actors() }

// TaskActor is the actor of a task; the zero Ref if there is none.
func TaskActor(s *Server, id string) actors.Ref {
	if found := s.tasks.Find(id); found != nil {
		return found.Actor()
	}
	return actors.Ref{}
}

// Pages is how many elicitations by URL are open, and of how many a client is to hear
// the end.
func Pages(s *Server) (open, told int) { return s.pages.Len() }

// Hosts reports whether a handler that may ask runs where a pipe of the server is read, or has begun there.
func Hosts(s *Server) bool {
	for one := range s.sessions.Range {
		if in := one.(*session).in; in != nil && in.Hosts.Load() {
			return true
		}
	}
	return false
}
