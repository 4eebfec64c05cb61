package mcpserver

import "time"

// CloseStream closes the HTTP connection on which the client waits for the answer, for
// the time of a pause, to save it; the client comes again by itself and gets what was
// said meanwhile, the answer too (SHL-40). Zero is [Options].RetryAfter.
//
// It does nothing where the client would not come again: on pipes, before 2025-11-25, in
// 2026-07-28, and where [Options].NoResume is set. The call goes on in any case.
func (q *Request) CloseStream(retry time.Duration) {
	if p, ok := q.live().port.(interface{ closeConn(pause time.Duration) }); ok {
		p.closeConn(retry)
	}
}
