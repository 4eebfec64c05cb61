package mcpserver

import "testing"

// KillTask stops the actor of a task.
func KillTask(t testing.TB, s *Server, id string) {
	t.Helper()
	found := s.tasks.Find(id)
	if found == nil {
		t.Fatalf("there is no task %q", id)
	}
	found.Actor().Stop()
}

// CancelTasks cancels all tasks.
func CancelTasks(s *Server) {
	s.tasks.CancelAll()
}
