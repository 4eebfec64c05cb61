package bench

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestGrowth: a leak is told from a cache that fills, from garbage, and from nothing.
func TestGrowth(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	tests := []struct {
		name  string
		value func(i int) float64 // of sample i of 200, at 100 i calls
		leaks bool
	}{
		{"flat", func(int) float64 { return 1e7 }, false},
		{"noise", func(int) float64 { return 1e7 + 1e6*rng.Float64() }, false},
		{"leak", func(i int) float64 { return 1e7 + 1e5*float64(i) + 1e5*rng.Float64() }, true},
		{"leak under a saw", func(i int) float64 { return 1e7 + 1e5*float64(i) + 4e6*float64(i%13)/13 }, true},
		{"saw", func(i int) float64 { return 1e7 + 4e6*float64(i%13)/13 }, false},
		{"cache that fills", func(i int) float64 { return 1e7 + 5e6*(1-math.Exp(-float64(i)/15)) }, false},
		{"warm-up", func(i int) float64 { return 1e7 + 5e6*min(float64(i)/20, 1) }, false},
		{"too little to tell", func(i int) float64 { return 1e9 + 100*float64(i) }, false},
	}
	for _, tt := range tests {
		samples := make([]Sample, 200)
		for i := range samples {
			samples[i].Calls = int64(100 * i)
			samples[i].Resident = int64(tt.value(i))
		}
		g := growthOf(samples, func(s *Sample) float64 { return float64(s.Resident) })
		if g.Leaks != tt.leaks {
			t.Errorf("%s: got %+v, want leaks=%v", tt.name, g, tt.leaks)
		}
	}
}

// TestMemoryGrowth: in a short run memory has to double before it is called a leak.
func TestMemoryGrowth(t *testing.T) {
	for _, tt := range []struct {
		seconds, end float64 // the memory is 1e8 at the begin
		leaks        bool
	}{{3, 1.5e8, false}, {3, 2.5e8, true}, {20, 1.5e8, true}} {
		samples := make([]Sample, 200)
		for i := range samples {
			part := float64(i) / 199
			samples[i].At, samples[i].Calls, samples[i].Resident = tt.seconds*part, int64(100*i), int64(1e8+(tt.end-1e8)*part)
		}
		if g := memoryGrowth(samples); g.Leaks != tt.leaks {
			t.Errorf("from 1e8 to %g in %g s: got %+v, want leaks=%v", tt.end, tt.seconds, g, tt.leaks)
		}
	}
}

// TestSchedule: calls are due at their times, whatever the server does.
func TestSchedule(t *testing.T) {
	begun := pseudoTime
	s := schedule{length: 2e9, rate: 10}
	for n, want := range map[int64]float64{0: 0, 1: 0.1, 19: 1.9} {
		if at, ok := s.due(begun, n); !ok || math.Abs(at.Sub(begun).Seconds()-want) > 1e-9 {
			t.Errorf("due(%d): got %v, %v, want after %v s", n, at.Sub(begun), ok, want)
		}
	}
	if _, ok := s.due(begun, 20); ok {
		t.Error("due(20): got a call behind the end")
	}
	if got := s.missed(begun, begun.Add(3e9), 5); got != 15 {
		t.Errorf("missed: got %d, want 15", got)
	}
	if got := (schedule{count: 7, rate: 10}).missed(begun, begun.Add(3e9), 5); got != 2 {
		t.Errorf("missed of 7: got %d, want 2", got)
	}
}

func TestRankTest(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	sample := func(n int, mean float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = mean + rng.NormFloat64()
		}
		return out
	}
	if p := rankTest(sample(20, 10), sample(20, 12)); p >= significance {
		t.Errorf("rankTest of means 10 and 12: got %v", p)
	}
	if p := rankTest([]float64{1, 2, 3}, []float64{7, 8, 9}); p != 1 {
		t.Errorf("rankTest of three values: got %v, want 1", p)
	}
	if p := rankTest([]float64{5, 5, 5, 5, 5}, []float64{5, 5, 5, 5, 5}); p != 1 {
		t.Errorf("rankTest of the same: got %v, want 1", p)
	}
	// Known: U = 0 of 5 and 5, z = (12.5 - 0.5) / sqrt(25 · 11 / 12).
	if p := rankTest([]float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}); math.Abs(p-0.01219) > 1e-4 {
		t.Errorf("rankTest of two that do not overlap: got %v, want 0.0122", p)
	}
	wrong := 0
	for range 500 {
		if rankTest(sample(20, 10), sample(20, 10)) < significance {
			wrong++
		}
	}
	if wrong > 15 { // 5 are expected
		t.Errorf("%d of 500 equal pairs are said to differ", wrong)
	}
}

// made is a report with windows around a latency.
func made(name string, p50, rate float64) *Report {
	r := &Report{Name: name, Calls: 1000, Latency: Latency{P50: p50, P99: 2 * p50}, Rate: rate, Failures: []Fail{}, Verdicts: []Verdict{}}
	for i := range windowsOf {
		f := 1 + 0.01*float64(i%5)
		r.Windows = append(r.Windows, Window{Rate: rate * f, P50: p50 * f, P99: 2 * p50 * f})
	}
	return r
}

func TestCompare(t *testing.T) {
	before := &File{Schema: FileSchema, Runs: []*Report{made("a", 100, 1000), made("b", 50, 10)}}
	same, err := Compare(before, &File{Runs: []*Report{made("a", 100, 1000)}})
	if err != nil || len(Regressed(same, 0)) != 0 {
		t.Errorf("Compare with the same: got %+v, %v", same, err)
	}
	worse, err := Compare(before, &File{Runs: []*Report{made("b", 75, 10)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := Regressed(worse, 10); len(got) != 2 || got[0].Metric != "p50 µs" || math.Abs(got[0].Change-50) > 1e-9 {
		t.Errorf("Regressed by 10 %%: got %+v, want p50 and p99, by 50 %%", got)
	}
	if got := Regressed(worse, 60); len(got) != 0 {
		t.Errorf("Regressed by 60 %%: got %+v", got)
	}
	renamed, err := Compare(before, &File{Runs: []*Report{made("c", 50, 1000)}})
	if err != nil || len(renamed) == 0 || renamed[0].Before != 100 {
		t.Errorf("Compare by place: got %+v, %v", renamed, err)
	}
	other := made("a", 100, 1000)
	other.Load.InFlight = 7
	if _, err := Compare(before, &File{Runs: []*Report{other}}); err == nil {
		t.Error("Compare of two loads: got no error")
	}
	if _, err := Compare(before, &File{}); err == nil {
		t.Error("Compare with nothing: got no error")
	}
	failing := made("a", 100, 1000)
	failing.Failed = 100
	if d, _ := Compare(before, &File{Runs: []*Report{failing}}); len(Regressed(d, 1)) != 1 {
		t.Errorf("Compare with failures: got %+v", d)
	}
}

// TestRoundTrip: nothing of a report is lost in its JSON.
func TestRoundTrip(t *testing.T) {
	r := made("a", 100, 1000)
	r.Server = &Process{PIDs: []int{1}, CPUMicros: 3, Samples: []Sample{{At: 1, Calls: 2, Usage: Usage{Processes: 1, Resident: 5, Files: 6, Threads: 7}, CPUSeconds: 8}}, Resident: Growth{Leaks: true, T: maxT}}
	want := File{Schema: FileSchema, Runs: []*Report{r}}
	data, err := json.Marshal(&want)
	if err != nil {
		t.Fatal(err)
	}
	var got File
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("round trip: got %+v, want %+v", got, want)
	}
}

func TestArguments(t *testing.T) {
	tests := []struct{ schema, want string }{
		{`{"type":"object","properties":{"message":{"type":"string"},"n":{"type":"integer"},"also":{"type":"string"}},"required":["message","n"]}`, `{"message":"xxxxx","n":1}`},
		{`{"type":"object","properties":{"kind":{"enum":["one","two"]},"all":{"type":"array"}},"required":["kind","all"]}`, `{"all":[],"kind":"one"}`},
		{`{"type":"object"}`, `{}`},
		{``, `{}`},
		{`{"type":"object","properties":{"what":{"anyOf":[]}},"required":["what"]}`, ""},
	}
	for _, tt := range tests {
		got, err := argumentsFor(json.RawMessage(tt.schema), 5)
		if (err != nil) != (tt.want == "") {
			t.Errorf("argumentsFor(%s): got error %v", tt.schema, err)
			continue
		}
		var a, b any
		if err == nil && (json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(tt.want), &b) != nil || !reflect.DeepEqual(a, b)) {
			t.Errorf("argumentsFor(%s): got %s, want %s", tt.schema, got, tt.want)
		}
	}
}

// TestJudgeFloor: a server is slow by what a floor needs.
func TestJudgeFloor(t *testing.T) {
	floor, rep := made("floor", 100, 1000), made("mine", 100, 1000)
	floor.Alone.P50, rep.Alone.P50 = 500, 4000
	rep.JudgeFloor(floor)
	if len(rep.Verdicts) != 1 || rep.Verdicts[0].Kind != VerdictSlow || !strings.Contains(rep.Verdicts[0].Text, "floor") {
		t.Errorf("JudgeFloor: got %+v", rep.Verdicts)
	}
	quick := made("quick", 100, 1000)
	quick.Alone.P50 = 600
	if quick.JudgeFloor(floor); len(quick.Verdicts) != 0 {
		t.Errorf("JudgeFloor: got %+v, want nothing", quick.Verdicts)
	}
}

// TestJudgeQueueing: calls wait for each other where one of n in flight takes nearly n times
// what it takes alone.
func TestJudgeQueueing(t *testing.T) {
	tests := []struct {
		name           string
		load           Load
		alone, service float64 // ms
		want           string
	}{
		{"one after the other", Load{Loop: "closed", InFlight: 8}, 50.1, 400.8, "with 8 in flight a call takes 400.8ms, and alone 50.1ms: they are carried out one after the other"},
		{"at the bound", Load{Loop: "closed", InFlight: 8}, 50, 280, "with 8 in flight a call takes 280ms, and alone 50ms: they are carried out one after the other"},
		{"below it", Load{Loop: "closed", InFlight: 8}, 50, 279, ""},
		{"side by side", Load{Loop: "closed", InFlight: 8}, 50, 51, ""},
		{"too few in flight", Load{Loop: "closed", InFlight: 3}, 50, 150, ""},
		{"too quick to tell", Load{Loop: "closed", InFlight: 8}, 0.9, 7.2, ""},
		{"not measured alone", Load{Loop: "closed", InFlight: 8}, 0, 400, ""},
		{"open loop", Load{Loop: "open", InFlight: 8}, 50, 400, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rep := made("mine", 100, 1000)
			rep.Load, rep.Service = tt.load, Latency{P50: 1000 * tt.service}
			if tt.alone > 0 {
				rep.Alone = Latency{Count: 4, P50: 1000 * tt.alone}
			}
			rep.judge()
			want := []Verdict{}
			if tt.want != "" {
				want = append(want, Verdict{VerdictQueueing, tt.want})
			}
			if !reflect.DeepEqual(rep.Verdicts, want) {
				t.Errorf("got %+v, want %+v", rep.Verdicts, want)
			}
		})
	}
}
