package loop

// Poison makes the actor of a run panic that has nothing to write.
func (r *Run) Poison() { r.ref.Send((*raise)(nil)) }

// New returns the only run of a template.
func New(cfg *Config) (*Run, error) {
	t, err := NewTemplate(cfg)
	if err != nil {
		return nil, err
	}
	return t.New(cfg.Own)
}
