package openai

import "testing"

func TestGeneration(t *testing.T) {
	for name, want := range map[string]generation{
		"gpt-5": {major: 5}, "gpt-5-mini": {major: 5}, "gpt-5.4": {major: 5, minor: 4}, "gpt-5.10-sol": {major: 5, minor: 10}, "gpt-6-astra": {major: 6}, "gpt-6.1-sol:ft": {major: 6, minor: 1},
		"gpt-4.1": {major: 4, minor: 1}, "o3": {o: true}, "o4-mini": {o: true}, "o1-2024-12-17": {o: true},
		"": {}, "gpt": {}, "gpt-": {}, "gpt-4o": {}, "gpt-oss-120b": {}, "gpt-35-turbo": {}, "openai/gpt-5": {}, "o": {}, "olmo-2": {}, "o12": {}, "my-gpt-5": {}, "-5": {}, "gpt-image-1": {},
	} {
		if got := generationOf(name); got != want {
			t.Errorf("%q: got %+v, want %+v", name, got, want)
		}
	}
}
