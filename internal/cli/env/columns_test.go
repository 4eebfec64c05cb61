package env

import (
	"reflect"
	"testing"
	"time"
)

func TestWhen(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 0, 0, 30, 0, time.Local)
	for _, tt := range []struct {
		at   time.Time
		want string
		fine string
	}{
		{now, "00:00:30", "00:00:30.000"},
		{now.UTC(), "00:00:30", "00:00:30.000"},
		{now.Add(23*time.Hour + time.Millisecond), "23:00:30", "23:00:30.001"},
		{now.Add(-time.Minute), "2026-02-28 23:59:30", "2026-02-28 23:59:30.000"},
		{now.Add(24 * time.Hour), "2026-03-02 00:00:30", "2026-03-02 00:00:30.000"},
		{now.AddDate(-1, 0, 0), "2025-03-01 00:00:30", "2025-03-01 00:00:30.000"},
	} {
		if got := When(tt.at, now); got != tt.want {
			t.Errorf("when(%v): got %q, want %q", tt.at, got, tt.want)
		}
		if got := WhenMillis(tt.at, now); got != tt.fine {
			t.Errorf("whenMillis(%v): got %q, want %q", tt.at, got, tt.fine)
		}
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	table := func() [][]string {
		return [][]string{{"JOB", "PROMPT", "ERROR"}, {"j", "Count to three, and then on to nine.", "it was too much of counting"}}
	}
	for width, want := range map[int][]string{
		0:  {"j", "Count to three, and then on to nine.", "it was too much of counting"},
		70: {"j", "Count to three, and then on to nine.", "it was too much of counting"}, // 3+2+36+2+27 = 70
		69: {"j", "Count to three, and then on to nin…", "it was too much of counting"},
		44: {"j", "Count to three,…", "it was too much of c…"},
		10: {"j", "Count to three,…", "it was too much…"},
	} {
		rows := table()
		if Fit(rows, width, 1, 2); !reflect.DeepEqual(rows[1], want) {
			t.Errorf("fit to %d: got %q, want %q", width, rows[1], want)
		}
	}
}
