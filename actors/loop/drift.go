package loop

import (
	"slices"

	"github.com/troupe-dev/troupe/internal/runlog"
)

// keepTo returns the configuration with which a run goes on whose agent or tools are not as it has
// recorded them, and the event that says so; nil for none.
func (re *Resumption) keepTo(cfg *config, offer *Offer) (*config, *runlog.Entry) {
	what, changed := re.State.Drift(cfg.System, cfg.Model.Name(), offer.refs)
	if re.OnDrift == runlog.DriftContinue && cfg.System != re.State.Agent.System {
		own, shared := *cfg, *cfg.shared
		shared.System, own.shared = re.State.Agent.System, &shared
		cfg = &own
	}
	if len(what) == 0 {
		return cfg, nil
	}
	return cfg, &runlog.Entry{Type: runlog.RunDriftedType, Body: &runlog.RunDrifted{Policy: re.OnDrift, What: what, Tools: changed}}
}

// drifted returns the tools that differ from what the run has recorded: a person is asked before each call
// of them.
func (re *Resumption) drifted(now *runlog.Entry) []string {
	if re.OnDrift != runlog.DriftContinue {
		return nil
	}
	names := slices.Clone(re.State.Drifted)
	if now != nil {
		names = append(names, now.Body.(*runlog.RunDrifted).Tools...)
	}
	return names
}
