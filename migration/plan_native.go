package migration

func (p *planner) toNative() {}
