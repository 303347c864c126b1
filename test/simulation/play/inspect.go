package play

import "fmt"

// inspect checks what must be true once trouble has ended long ago.
func (w *World) inspect() {
	if w.broken == nil {
		w.check.AtRest()
	}
}

// quiet checks that nothing was written for a long time in which nothing happened
// but that all managers began anew.
func (w *World) quiet(before int) {
	if w.broken == nil && w.writes != before {
		w.violate("QuietAtRest", fmt.Errorf("%d requests to write in %s in which nothing happened but that the managers "+
			"began anew", w.writes-before, quietFor))
	}
}
