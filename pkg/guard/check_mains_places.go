package guard

import (
	"fmt"

	"github.com/vifl/vifl/pkg/mains"
)

func mainsServes(f *Facts) []Finding {
	m := f.Mains
	switch {
	case m.Err != nil:
		return nil
	case m.PlacesErr != nil:
		return blind("mains", m.PlacesErr, "correct mains.where; it selects side, host, port, database")
	case mains.Same(m.Places, m.Legacy):
		return good("mains", "%s", mains.Show(m.Places))
	case mains.Same(m.Places, m.Vitess):
		return refuse("mains", mains.Show(m.Places)+": on Vitess already", mains.Show(m.Legacy), fmt.Sprintf("nothing to move: vifl status %s", f.Shard.Number))
	}
	return refuse("mains", mains.Show(m.Places), mains.Show(m.Legacy), "the application finds the shard elsewhere: check the shard's sides in vifl.yaml (written as mains has them), and mains")
}
