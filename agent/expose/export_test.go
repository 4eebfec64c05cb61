package expose

import "time"

// SetTaskAfter changes how long a run may take before its call becomes a task.
func (f *Front) SetTaskAfter(d time.Duration) { f.operations.TaskAfter = d }
