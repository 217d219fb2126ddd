// The kit for 2026-07-28 only: the handshake of earlier revisions is refused with -32022.

import { flags, serve } from './lib/front.mjs';
import { kitServer } from './lib/kit-server.mjs';

await serve(kitServer('kit-modern'), { ...flags(), era: 'modern' });
