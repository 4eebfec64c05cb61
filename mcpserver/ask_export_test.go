package mcpserver

import "github.com/troupe-dev/troupe/actors"

// Flows is how many calls in several rounds are remembered.
func Flows(s *Server) int {
	s.flows.mu.Lock()
	defer s.flows.mu.Unlock()
	return len(s.flows.all)
}

// ParkedActors are those of the handlers that are kept between rounds.
func ParkedActors(s *Server) (all []actors.Ref) {
	s.flows.mu.Lock()
	defer s.flows.mu.Unlock()
	for _, o := range s.flows.owners {
		for _, n := range o.parked {
			n.mu.Lock()
			all = append(all, n.parked.ref)
			n.mu.Unlock()
		}
	}
	return all
}

// TaskActor is the actor of a task; the zero Ref if there is none.
func TaskActor(s *Server, id string) actors.Ref {
	if found, ok := s.tasks.byID.Load(id); ok {
		return found.(*task).Actor()
	}
	return actors.Ref{}
}

// Pages is how many elicitations by URL are open, and of how many a client is to hear
// the end.
func Pages(s *Server) (open, told int) {
	s.visits.mu.Lock()
	defer s.visits.mu.Unlock()
	return s.visits.table.Len(), len(s.visits.open)
}
