package mcpserver

import "testing"

// KillTask stops the actor of a task.
func KillTask(t testing.TB, s *Server, id string) {
	t.Helper()
	found, ok := s.tasks.byID.Load(id)
	if !ok {
		t.Fatalf("there is no task %q", id)
	}
	found.(*task).Actor().Stop()
}

// CancelTasks cancels all tasks.
func CancelTasks(s *Server) {
	s.tasks.byID.Range(func(_, t any) bool { t.(*task).Cancel(); return true })
}
