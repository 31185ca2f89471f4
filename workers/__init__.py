"""What clients send in binary formats, judged and decoded before the server looks at it."""
