package mcp

import (
	"slices"
	"testing"
)

func TestVersions(t *testing.T) {
	if got := Versions(); got[0] != Latest || len(got) != 5 || !slices.IsSortedFunc(got, func(a, b Version) int {
		if a > b {
			return -1
		}
		return 1
	}) {
		t.Errorf("Versions: got %v, want five, newest first", got)
	}
	for _, v := range []Version{"", "2025-06-19", "2030-01-01", "2025-06-18 "} { // LIFE-15
		if v.Known() || v.Era() != EraUnknown || v.Has(FeatureHandshake) || v.Method(MethodPing, Client) {
			t.Errorf("%q counts as known", v)
		}
	}
	tests := []struct {
		a, b []Version
		want Version
	}{
		{[]Version{V2024_11_05, V2025_06_18}, Versions(), V2025_06_18},
		{[]Version{"9999-01-01", V2026_07_28}, []Version{V2025_11_25}, ""},
		{nil, Versions(), ""},
	}
	for _, tt := range tests {
		if got, ok := Newest(tt.a, tt.b); got != tt.want || ok != (tt.want != "") {
			t.Errorf("Newest(%v, %v): got %q, %v, want %q", tt.a, tt.b, got, ok, tt.want)
		}
	}
}

func TestFeatures(t *testing.T) {
	tests := []struct {
		f    Feature
		want []Version // oldest first
	}{
		{FeatureBatch, []Version{V2025_03_26}}, // BASE-20, BASE-23
		{FeatureToolAnnotations, []Version{V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28}},
		{FeatureAudioBlocks, []Version{V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28}},
		{FeatureCompletions, []Version{V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28}},
		{FeatureProgressMessage, []Version{V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28}},
		{FeatureElicitation, []Version{V2025_06_18, V2025_11_25, V2026_07_28}},
		{FeatureStructuredContent, []Version{V2025_06_18, V2025_11_25, V2026_07_28}},
		{FeatureResourceLinks, []Version{V2025_06_18, V2025_11_25, V2026_07_28}},
		{FeatureTitles, []Version{V2025_06_18, V2025_11_25, V2026_07_28}},
		{FeatureCompletionContext, []Version{V2025_06_18, V2025_11_25, V2026_07_28}},
		{FeatureURLElicitation, []Version{V2025_11_25, V2026_07_28}},
		{FeatureElicitationIDs, []Version{V2025_11_25}},
		{FeatureSamplingTools, []Version{V2025_11_25, V2026_07_28}},
		{FeatureIcons, []Version{V2025_11_25, V2026_07_28}},
		{FeatureCoreTasks, []Version{V2025_11_25}},
		{FeatureAnyStructuredContent, []Version{V2026_07_28}},
		{FeatureResultType, []Version{V2026_07_28}},
		{FeatureCacheHints, []Version{V2026_07_28}},
		{FeatureInputRequired, []Version{V2026_07_28}},
		{FeatureListen, []Version{V2026_07_28}},
		{FeatureHandshake, []Version{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25}},
	}
	for _, tt := range tests {
		var got []Version
		for _, v := range Versions() {
			if v.Has(tt.f) {
				got = append(got, v)
			}
		}
		slices.Reverse(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("revisions with feature %d: got %v, want %v", tt.f, got, tt.want)
		}
	}
}

// The columns of tables 1 and 2: per revision, oldest first, who may send it:
// c, s, b (both) or - (nobody).
func TestMethodTable(t *testing.T) {
	tests := []struct{ method, want string }{
		{"initialize", "cccc-"}, {"server/discover", "----c"}, {"ping", "bbbb-"}, {"tools/list", "ccccc"}, {"tools/call", "ccccc"},
		{"resources/list", "ccccc"}, {"resources/templates/list", "ccccc"}, {"resources/read", "ccccc"}, {"resources/subscribe", "cccc-"},
		{"resources/unsubscribe", "cccc-"}, {"prompts/list", "ccccc"}, {"prompts/get", "ccccc"}, {"completion/complete", "ccccc"},
		{"logging/setLevel", "cccc-"}, {"subscriptions/listen", "----c"}, {"roots/list", "ssss-"}, {"sampling/createMessage", "ssss-"},
		{"elicitation/create", "--ss-"}, {"tasks/get", "---bc"}, {"tasks/result", "---b-"}, {"tasks/list", "---b-"}, {"tasks/cancel", "---bc"},
		{"tasks/update", "----c"}, {"notifications/initialized", "cccc-"}, {"notifications/cancelled", "bbbbb"},
		{"notifications/progress", "bbbbs"}, {"notifications/message", "sssss"}, {"notifications/tools/list_changed", "sssss"},
		{"notifications/prompts/list_changed", "sssss"}, {"notifications/resources/list_changed", "sssss"},
		{"notifications/resources/updated", "sssss"}, {"notifications/roots/list_changed", "cccc-"},
		{"notifications/elicitation/complete", "---s-"}, {"notifications/tasks/status", "---b-"}, {"notifications/tasks", "----s"},
		{"notifications/subscriptions/acknowledged", "----s"},
		{"skills/list", "ccccc"}, {"skills/get", "ccccc"}, {"resources/directory/read", "ccccc"}, {"Tools/call", "-----"},
	}
	names := map[string]byte{"truefalse": 'c', "falsetrue": 's', "truetrue": 'b', "falsefalse": '-'}
	word := map[bool]string{true: "true", false: "false"}
	for _, tt := range tests {
		var got []byte
		for _, v := range slices.Backward(Versions()) {
			got = append(got, names[word[v.Method(tt.method, Client)]+word[v.Method(tt.method, Server)]])
		}
		if string(got) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.method, got, tt.want)
		}
		if tt.method != "Tools/call" && intern([]byte(tt.method)) != tt.method {
			t.Errorf("intern(%q): got %q", tt.method, intern([]byte(tt.method)))
		}
	}
	if len(tests)-1 != len(uniqueMethods()) {
		t.Errorf("%d methods tested, the table has %d", len(tests)-1, len(uniqueMethods()))
	}
}

func uniqueMethods() map[string]bool {
	m := make(map[string]bool)
	for _, row := range methodTable {
		m[row.method] = true
	}
	return m
}
