package loop

// Poison makes the run's actor panic.
func (r *Run) Poison() { r.ref.Send(appended{batches: []*batch{nil}}) }
