package worker

import "time"

// Break makes the worker's actor fail.
func (w *Worker) Break() { w.send("no message of it") }

// SetWall sets the wall clock of a worker that does not run yet.
func (w *Worker) SetWall(now func() time.Time) { w.wall = now }
