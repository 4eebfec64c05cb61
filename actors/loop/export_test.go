package loop

// Poison makes the actor of a run panic that has nothing to write.
func (r *Run) Poison() { r.ref.Send((*raise)(nil)) }
