package worker

// Break makes the worker's actor fail.
func (w *Worker) Break() { w.send("no message of it") }
