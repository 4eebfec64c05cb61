package bench

import (
	"fmt"
	"time"
)

// The kinds of verdicts.
const (
	VerdictSlow     = "slow"     // a call alone takes much longer than a sign of life, or than the floor's
	VerdictQueueing = "queueing" // calls wait for each other
	VerdictLeak     = "leak"     // something grows with the calls
	VerdictFailing  = "failing"  // more than one call in a hundred fails
	VerdictOverload = "overload" // the rate of an open loop is too much
)

// What a verdict takes, in µs and as ratios.
const (
	slowAtLeast   = 5_000 // what a call takes beyond a sign of life
	slowTimes     = 10
	slowFloor     = 3
	slowFloorTime = 1_000
	queueingAt    = 4 // in flight
	queueingPart  = 0.7
)

// judge says what stands out.
func (rep *Report) judge() {
	rep.Verdicts = []Verdict{}
	rep.judgeSpeed()
	rep.judgeFailures()
	if p := rep.Server; p != nil {
		rep.judgeGrowth("memory", "KB", 1.0/1024, p.Resident)
		rep.judgeGrowth("open files", "", 1, p.Files)
		rep.judgeGrowth("threads", "", 1, p.Threads)
		rep.judgeGrowth("goroutines", "", 1, p.Goroutines)
	}
}

func (rep *Report) say(kind, format string, args ...any) {
	rep.Verdicts = append(rep.Verdicts, Verdict{kind, fmt.Sprintf(format, args...)})
}

func (rep *Report) judgeSpeed() {
	call, ping := rep.Alone.P50, rep.Ping.P50
	if beyond := call - ping; rep.Alone.Count > 0 && rep.Ping.Count > 0 && beyond >= slowAtLeast && call >= slowTimes*ping {
		rep.say(VerdictSlow, "a call alone takes %s, and a sign of life %s: the way there and back is not it, the tool is%s", inTime(call), inTime(ping), rep.whatOn(beyond))
	}
	n := float64(min(rep.Load.InFlight, int(rep.Calls)))
	if rep.Load.Loop == "closed" && n >= queueingAt && rep.Alone.Count > 0 && rep.Service.P50 >= queueingPart*n*call && call >= 1000 {
		rep.say(VerdictQueueing, "with %.0f in flight a call takes %s, and alone %s: they are carried out one after the other", n, inTime(rep.Service.P50), inTime(call))
	}
	if rep.Load.Loop == "open" && (float64(rep.Unsent) > 0.01*float64(rep.Calls) || rep.Latency.P50 > 2*rep.Service.P50 && rep.Latency.P50 > 1000) {
		rep.say(VerdictOverload, "%.0f calls a second are too much: %.0f were answered, %d never begun; of %s that a caller waits, %s are the call", rep.Load.Rate, rep.Rate, rep.Unsent, inTime(rep.Latency.P50), inTime(rep.Service.P50))
	}
}

// whatOn says whether the server computes or waits in that time.
func (rep *Report) whatOn(beyond float64) string {
	p := rep.Server
	switch {
	case p == nil || p.CPUMicros == 0:
		return ""
	case p.CPUMicros >= beyond/2:
		return fmt.Sprintf(", which computes: %s of CPU for each call", inTime(p.CPUMicros))
	}
	return fmt.Sprintf(", which waits for something: only %s of CPU for each call", inTime(p.CPUMicros))
}

// JudgeFloor says how a run compares with that of a floor, the least a server can do.
func (rep *Report) JudgeFloor(floor *Report) {
	if rep.Alone.P50 >= slowFloor*floor.Alone.P50 && rep.Alone.P50-floor.Alone.P50 >= slowFloorTime {
		rep.say(VerdictSlow, "a call alone takes %s, and the floor's %s%s", inTime(rep.Alone.P50), inTime(floor.Alone.P50), rep.whatOn(rep.Alone.P50-floor.Alone.P50))
	}
}

func (rep *Report) judgeFailures() {
	all := rep.Calls + rep.Failed
	if len(rep.Failures) == 0 || float64(rep.Failed) <= 0.01*float64(all) {
		return
	}
	worst := rep.Failures[0]
	for _, f := range rep.Failures {
		if f.Count > worst.Count {
			worst = f
		}
	}
	rep.say(VerdictFailing, "%d of %d calls failed, %d of them by %s: %s", rep.Failed, all, worst.Count, worst.Kind, worst.First)
}

func (rep *Report) judgeGrowth(what, unit string, scale float64, g Growth) {
	if !g.Leaks {
		return
	}
	rep.say(VerdictLeak, "%s: up by %.1f %s for a thousand calls, from %.0f to %.0f (t %.0f), and in the second half of the run by %.1f",
		what, g.Per1000*scale, unit, g.Begin*scale, g.End*scale, min(g.T, 1000), g.Late*scale)
}

// inTime writes µs as a person reads them.
func inTime(us float64) string {
	d := time.Duration(us * float64(time.Microsecond))
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}
