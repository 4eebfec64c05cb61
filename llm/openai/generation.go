package openai

import (
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/llm"
)

// generation is what the name of one of OpenAI's models says of what it takes: gpt-MAJOR.MINOR, or one of the o series, which
// came before gpt-5. The zero generation is that of a name that says nothing, or of a model without reasoning.
type generation struct {
	major, minor int
	o            bool
}

func generationOf(model string) generation {
	name, number := model, ""
	if i := strings.IndexAny(model, "-:@"); i > 0 {
		name, number = model[:i], model[i+1:]
	}
	if len(name) == 2 && name[0] == 'o' && name[1] >= '0' && name[1] <= '9' {
		return generation{o: true}
	}
	if i := strings.IndexAny(number, "-:@"); i > 0 {
		number = number[:i]
	}
	first, second, _ := strings.Cut(number, ".")
	if name != "gpt" || len(first) != 1 || first[0] < '0' || first[0] > '9' { // gpt-35 is Azure's name for 3.5
		return generation{}
	}
	major, _ := strconv.Atoi(first)
	minor, _ := strconv.Atoi(second) // none is 0
	return generation{major: major, minor: minor}
}

func (g generation) from(major, minor int) bool {
	return g.major > major || g.major == major && g.minor >= minor
}

// reasons reports whether the models of the generation think. They take no temperature and no stop sequences, and have
// their own word for the limit of their output.
func (g generation) reasons() bool { return g.o || g.from(5, 0) }

// wantsResponses reports whether the models of the generation take tools by the Responses API only, unless they do not think.
func (g generation) wantsResponses() bool { return g.from(5, 4) }

// efforts are those that the models of the generation take as a rule; nil where nothing is known. Some models of a
// generation take fewer: that shows when one is refused.
func (g generation) efforts() []llm.Effort {
	low := []llm.Effort{llm.EffortLow, llm.EffortMedium, llm.EffortHigh}
	switch {
	case g.from(6, 0):
		return append(low, llm.EffortNone, llm.EffortXHigh, llm.EffortMax)
	case g.from(5, 2):
		return append(low, llm.EffortNone, llm.EffortXHigh)
	case g.from(5, 1):
		return append(low, llm.EffortNone)
	case g.from(5, 0):
		return append(low, llm.EffortMinimal)
	case g.o:
		return low
	}
	return nil
}
