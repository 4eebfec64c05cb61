package call

// OnAssigned has f called for each call that has an actor, before the actor knows of the call.
func (t *Table) OnAssigned(f func()) { t.assigned = f }
