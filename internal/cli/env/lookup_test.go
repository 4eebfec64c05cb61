package env

import (
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	ids := []string{"3fa85f64-5717-4562-b3fc-2c963f66afa6-1-0", "3fa85f64-5717-4562-b3fc-2c963f66afa6-1-1", "job-abc", "job-abcd", "other"}
	tests := []struct{ name, want string }{
		{"@-1", ids[0]}, {"last", ids[0]}, {"@-5", "other"}, {"@-6", ""}, {"@-0", ""}, {"@-99999999999999999999", ""},
		{"3fa85f64-1-0", ids[0]}, {"3fa-1-1", ids[1]}, {"3fa85f64", ""}, {ids[1], ids[1]},
		{"job-abc", "job-abc"}, {"job-abcd", "job-abcd"}, {"job-ab", ""}, {"o", "other"}, {"none", ""}, {"", ""},
	}
	for _, tt := range tests {
		got, err := Pick("entry", "ls", tt.name, ids, func(s string) string { return s })
		if got != tt.want || (err == nil) != (tt.want != "") || err != nil && ExitCode(err) != ExitUsage {
			t.Errorf("pick(%q): got %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
	for args, want := range map[string]string{
		"runs tail -1": "runs tail @-1", "inbox show -1 --json": "inbox show @-1 --json", "run -1": "run -1", "--quiet jobs show -12": "--quiet jobs show @-12",
		"jobs ls -n 5": "jobs ls -n 5", "jobs add -- -1": "jobs add -- -1", "inbox answer -1 --set n=-1": "inbox answer @-1 --set n=-1", "runs ls -x": "runs ls -x",
	} {
		if got := strings.Join(CountBack(strings.Fields(args)), " "); got != want {
			t.Errorf("countBack(%q): got %q, want %q", args, got, want)
		}
	}
}
