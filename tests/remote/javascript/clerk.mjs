// An agent of ADK for JavaScript that needs no model: what the message says is what it does.
// `book CITY` calls a tool that writes state, `leave` waits for an answer, `fail` fails, `wait` never ends.

import {BaseLlm, FunctionTool, LlmAgent, LongRunningFunctionTool} from '@google/adk';
import {z} from 'zod';

class Scripted extends BaseLlm {
  constructor() {
    super({model: 'scripted'});
  }

  async *generateContentAsync(request, stream) {
    const last = request.contents.at(-1).parts.at(-1);
    const said = last.text ?? '';
    const [what, ...rest] = said.split(' ');
    if (what === 'fail') throw new Error('kaput');
    if (what === 'book') {
      yield content({functionCall: {name: 'book', args: {city: rest.join(' ')}}});
      return;
    }
    if (what === 'leave') {
      yield content({functionCall: {name: 'leave', args: {days: 3}}});
      return;
    }
    if (stream || what === 'wait') {
      yield {...content({text: 'Do'}), partial: true};
      if (what === 'wait') await new Promise(() => {});
      yield {...content({text: 'ne.'}), partial: true};
    }
    yield content({text: 'Done.'});
  }

  connect() {
    throw new Error('live runs are no part of this');
  }
}

function content(part) {
  return {content: {role: 'model', parts: [part]}};
}

const book = new FunctionTool({
  name: 'book',
  description: 'Books a city.',
  parameters: z.object({city: z.string()}),
  execute: ({city}, context) => {
    context.state.set('city', city);
    context.state.set('user:home', city);
    return {status: 'ok'};
  },
});

const leave = new LongRunningFunctionTool({
  name: 'leave',
  description: 'Asks for days off.',
  parameters: z.object({days: z.number()}),
  execute: () => ({status: 'pending'}),
});

export const rootAgent = new LlmAgent({
  name: 'clerk',
  description: 'Books cities.',
  instruction: 'Book what is asked for.',
  model: new Scripted(),
  tools: [book, leave],
});
