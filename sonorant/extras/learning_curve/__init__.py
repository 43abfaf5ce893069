"""What more recordings bring: a voice's figures by minutes of recordings, a curve through them, one sentence."""
