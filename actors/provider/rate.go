package provider

import "time"

// rate bounds how much begins within any minute. It remembers when each of the last
// limit things began, as far as they are a minute ago at the most.
type rate struct {
	limit  int         // 0: none
	starts []time.Time // oldest first
}

// wait returns how long it is until one more may begin, and notes that it does if that
// is now.
func (r *rate) wait(now time.Time) time.Duration {
	if r.limit == 0 {
		return 0
	}
	for len(r.starts) > 0 && now.Sub(r.starts[0]) >= time.Minute {
		r.starts = r.starts[1:]
	}
	if len(r.starts) >= r.limit {
		return time.Minute - now.Sub(r.starts[0])
	}
	r.starts = append(r.starts, now)
	return 0
}
