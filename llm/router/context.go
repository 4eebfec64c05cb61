package router

// ContextLength returns the context of the default model, in tokens; zero is not known.
// A conversation that is kept within it fits where it is mostly sent.
func (r *Router) ContextLength() int { return r.cards[r.first].Context }
